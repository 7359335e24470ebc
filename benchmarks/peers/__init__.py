"""The same job in other frameworks, each written as its own documentation recommends."""
