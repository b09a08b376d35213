"""Scripts that measuring runs as processes of their own: nodes and clients. They import nothing of the package.

Plain Python on blocking sockets: what it costs itself is measured by running it without a gateway in between.
"""
