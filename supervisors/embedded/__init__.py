"""The embedded guard: a hashed n-gram logistic regression that ships with the package."""
