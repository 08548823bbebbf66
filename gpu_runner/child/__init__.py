"""What runs in a child, inside of the sandbox: its process, and a module for each role with the handlers of its calls."""
