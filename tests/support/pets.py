"""A hierarchy of three classes, as a CSV file."""

PETS = "id,name,parent,definition\na,animal,,it moves\nd,dog|hound,a,it barks\nw,wolf,a,\n"
