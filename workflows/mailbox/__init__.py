"""How workflows of a session tell each other something: one envelope, one signal, one mailbox in each workflow."""
