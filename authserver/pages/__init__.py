"""The pages for people, one module per page: sign-in and Settings."""
