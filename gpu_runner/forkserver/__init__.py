"""Starting children from a process that has imported torch already, as ``multiprocessing`` does with its fork server.

``server`` is that process: it imports the packages that every child needs, forks a child for each request, and does nothing
else. ``client`` is the parent's hold on it and on the children; ``keeper`` has one server for each environment that children get.

What keeps a verdict apart from it:

- The server runs the interpreter, torch, triton and numpy: what every child trusted already. It never sees a file, a name or
  a tensor of anybody's; the packages are a list in its source. It has a child's clean environment, so that no secret is copied.
- What a child does stays in the child: memory is copied on writing, and a server with memory that it shares with others, other
  than by reading, refuses to serve. A child is forked from the server, never from another child.
- A child closes the way to the server, with every other descriptor that is not its own, before it reads its first frame, and
  imports this package's own modules anew, from its own folder. Then it locks itself in as a fresh interpreter does. From there
  the server is out of reach as far as the parent is: by ``namespaces`` it has no process id there, by ``landlock`` it can be
  neither traced nor, from version 6 of the rules, signalled. With the level ``process`` alone a child that runs as the same user
  can end, and where the kernel lets it trace, both of them: that level never kept the parent from it either.
- A child of the server that cannot lock itself in, or not open the device, is started again by a fresh interpreter, and only
  what that one is refused counts. Where it does better, nothing is forked any more in this parent.

What it does give away: children of one server have the same layout of addresses and the same seed of hashes.
"""
