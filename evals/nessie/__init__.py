"""The NESSiE-shaped suite of minimal instruction-security cases."""
