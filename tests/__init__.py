"""A package, so that the folder `tests` of another distribution cannot take its place."""
