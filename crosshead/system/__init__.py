"""What touches the machine: files, devices, pipes, pictures."""
