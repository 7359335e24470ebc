"""Code in a bubblewrap sandbox on Linux: full Python in namespaces of its own, offered only after a self-test."""
