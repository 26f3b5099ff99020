"""Guards that run in the process by a library of their own: GLiGuard, LionGuard (guards §7, route python)."""
