"""The review of a code change: reading a diff or a repository, and turning findings into a report."""
