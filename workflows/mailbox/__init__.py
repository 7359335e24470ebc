"""Messages between the workflows of a session: one envelope, one signal, one mailbox per workflow."""
