"""The same job in other frameworks, each as its own documentation has a user write it."""
