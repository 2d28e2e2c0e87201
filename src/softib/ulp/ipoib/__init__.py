"""IP over InfiniBand (RFC 4391, 4392) for programs on a running fabric: a network namespace for each
node, whose interfaces ``ib0``, ``ib1`` … use the node's ports. ``softib-ipoib`` (``preload/ipoib``)
moves the packets; this package creates the namespace, starts ``softib-ipoib``, and enters the
namespace."""
