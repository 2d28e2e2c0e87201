#include <simgrid/s4u.hpp>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <algorithm>
#include <simgrid/kernel/routing/NetPoint.hpp>
namespace sg4 = simgrid::s4u;
static std::pair<simgrid::kernel::routing::NetPoint*, simgrid::kernel::routing::NetPoint*> make_host(sg4::NetZone* zone, const std::vector<unsigned long>&, unsigned long id)
{
    auto* host = zone->create_host("node-" + std::to_string(id), 1e9)->seal();
    return {host->get_netpoint(), nullptr};
}
int main(int argc, char** argv)
{
    sg4::Engine e(&argc, argv);
    auto* zone = sg4::create_fatTree_zone("tree", nullptr, {3, {16, 8, 8}, {1, 8, 8}, {1, 1, 1}},
        sg4::ClusterCallbacks(make_host, {}, {}), 12.5e9, 100e-9, sg4::Link::SharingPolicy::SPLITDUPLEX);
    zone->seal();
    auto hosts = e.get_all_hosts();
    std::sort(hosts.begin(), hosts.end(), [](auto* a, auto* b){ return std::stoi(a->get_name().substr(5)) < std::stoi(b->get_name().substr(5)); });
    sg4::Actor::create("main", hosts[0], [&hosts]() {
        size_t n = hosts.size();
        auto began = std::chrono::steady_clock::now(); clock_t cpu = clock();
        for (size_t k = 1; k <= 8; k++) {
            std::vector<sg4::CommPtr> all;
            for (size_t i = 0; i < n; i++)
                all.push_back(sg4::Comm::sendto_async(hosts[i], hosts[(i + k) % n], 1000000));
            for (auto& c : all) c->wait();
        }
        double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
        printf("{\"hosts\": %zu, \"flows\": %zu, \"wall_s\": %.6f, \"cpu_s\": %.6f, \"end_s\": %.9f}\n", n, 8 * n, s, double(clock() - cpu) / CLOCKS_PER_SEC, sg4::Engine::get_clock());
    });
    e.run();
}
