"""Several processes behind one port: who keeps them alive, and how they show as one."""
