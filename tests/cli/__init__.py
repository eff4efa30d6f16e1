"""Tests of the commands; a package, so that files may be named like those of the library's tests."""
