"""The pages that people see, one module a page: signing in, and Settings."""
