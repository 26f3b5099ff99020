"""Request templates of guards that do not use the server's chat template: data files and their loader."""
