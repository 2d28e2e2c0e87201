// A message over a reliable connection in C++: librdmacm's objects with owners, errors as exceptions.
//
//     c++ -std=c++17 -O2 hello.cpp -o hello-cpp -lrdmacm -libverbs
//
// Without an argument it listens on its node's address; with one it connects there and sends.
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>
#include <thread>

using Id = std::unique_ptr<rdma_cm_id, decltype(&rdma_destroy_ep)>;
using Memory = std::unique_ptr<ibv_mr, decltype(&ibv_dereg_mr)>;

static void check(bool ok, const char *call)
{
    if (!ok)
        throw std::system_error(errno, std::generic_category(), call);
}

static Id endpoint(const char *address, bool listens)
{
    rdma_addrinfo hints{}, *list = nullptr;
    ibv_qp_init_attr qp{};
    rdma_cm_id *id = nullptr;

    hints.ai_port_space = RDMA_PS_TCP;
    hints.ai_flags = listens ? RAI_PASSIVE : 0;
    qp.cap = {4, 4, 1, 1, 0};
    qp.qp_type = IBV_QPT_RC;
    qp.sq_sig_all = 1;
    check(!rdma_getaddrinfo(address, "7471", &hints, &list), "rdma_getaddrinfo");
    std::unique_ptr<rdma_addrinfo, decltype(&rdma_freeaddrinfo)> owner(list, rdma_freeaddrinfo);
    check(!rdma_create_ep(&id, list, nullptr, &qp), "rdma_create_ep");
    return Id(id, rdma_destroy_ep);
}

static Id connected(const char *address)
{
    for (int tries = 100;; tries--) { // until it listens
        Id id = endpoint(address, false);
        if (!rdma_connect(id.get(), nullptr))
            return id;
        check(tries > 0, "rdma_connect");
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
}

static void check_completion(int polled, const ibv_wc &wc)
{
    check(polled > 0, "rdma_get_comp");
    if (wc.status != IBV_WC_SUCCESS)
        throw std::runtime_error(ibv_wc_status_str(wc.status));
}

int main(int argc, char **argv)
try {
    std::array<char, 64> text{};
    ibv_wc wc{};

    if (argc > 1) {
        Id id = connected(argv[1]);
        Memory memory(rdma_reg_msgs(id.get(), text.data(), text.size()), ibv_dereg_mr);
        check(memory != nullptr, "rdma_reg_msgs");
        const char *place = std::getenv("SOFTIB_PLACE");
        std::string("hello from C++ on ").append(place ? place : "another host").copy(text.data(), text.size() - 1);
        check(!rdma_post_send(id.get(), nullptr, text.data(), text.size(), memory.get(), 0), "rdma_post_send");
        check_completion(rdma_get_send_comp(id.get(), &wc), wc);
        rdma_disconnect(id.get());
        return 0;
    }
    Id listener = endpoint(std::getenv("SOFTIB_ADDRESS"), true);
    rdma_cm_id *request = nullptr;
    check(!rdma_listen(listener.get(), 1), "rdma_listen");
    check(!rdma_get_request(listener.get(), &request), "rdma_get_request");
    Id id(request, rdma_destroy_ep);
    Memory memory(rdma_reg_msgs(id.get(), text.data(), text.size()), ibv_dereg_mr);
    check(memory != nullptr, "rdma_reg_msgs");
    check(!rdma_post_recv(id.get(), nullptr, text.data(), text.size(), memory.get()), "rdma_post_recv");
    check(!rdma_accept(id.get(), nullptr), "rdma_accept");
    check_completion(rdma_get_recv_comp(id.get(), &wc), wc);
    std::cout << text.data() << std::endl;
    rdma_disconnect(id.get());
} catch (const std::exception &error) {
    std::cerr << "hello-cpp: " << error.what() << std::endl;
    return 1;
}
