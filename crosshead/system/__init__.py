"""Access to the machine: files, devices, pipes, pictures and progress."""
