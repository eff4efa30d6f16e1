"""Files, arrays, settings, errors: what every other package needs and no user sees."""
