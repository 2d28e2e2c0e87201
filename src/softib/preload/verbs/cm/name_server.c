/*
 * libfabric's datagram endpoints over verbs find their peers through a name server, one for all processes of a host:
 * the first process listens on a port (on the wildcard address), and the others register their names there over
 * localhost (prov/util/src/util_ns.c of 1.17). Nodes of a fabric share one machine, so they would share one server: a
 * name that two nodes use would resolve only to the first node, and the second node's peer would wait forever.
 * Therefore, on that port, which has no other use, the wildcard address and localhost are replaced with an address of
 * the node.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define PUBLIC __attribute__((visibility("default")))
#define PORT "FI_VERBS_DGRAM_NAME_SERVER_PORT" /* softib run sets both */
#define ADDRESSES "SOFTIB_ADDRESS"

typedef int (*name_fn)(int, const struct sockaddr *, socklen_t);

/* Return whether this is the name server's port at the address `general`; then set `node` to the
 * same port at the node's first address. */
static int of_name_server(const struct sockaddr *address, socklen_t length, in_addr_t general, struct sockaddr_in *node)
{
    const char *port = getenv(PORT), *text = getenv(ADDRESSES);
    char first[INET_ADDRSTRLEN];
    size_t n = text ? strcspn(text, " ,") : 0;

    if (!port || !n || n >= sizeof first || !address || length < sizeof *node || address->sa_family != AF_INET)
        return 0;
    memcpy(node, address, sizeof *node);
    if (ntohs(node->sin_port) != atoi(port) || node->sin_addr.s_addr != htonl(general))
        return 0;
    memcpy(first, text, n);
    first[n] = 0;
    return inet_pton(AF_INET, first, &node->sin_addr) == 1;
}

static int at_node(const char *function, int fd, const struct sockaddr *address, socklen_t length, in_addr_t general)
{
    name_fn next = (name_fn)dlsym(RTLD_NEXT, function);
    struct sockaddr_in node;

    if (of_name_server(address, length, general, &node))
        return next(fd, (const struct sockaddr *)&node, sizeof node);
    return next(fd, address, length);
}

PUBLIC int bind(int fd, const struct sockaddr *address, socklen_t length)
{
    return at_node("bind", fd, address, length, INADDR_ANY);
}

PUBLIC int connect(int fd, const struct sockaddr *address, socklen_t length)
{
    return at_node("connect", fd, address, length, INADDR_LOOPBACK);
}
