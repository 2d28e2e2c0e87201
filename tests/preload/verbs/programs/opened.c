/*
 * opened NAME …: each library is opened by its name, and a line says whether its ibv_get_device_list (with and without a version)
 * is the one that the program finds by itself, how many devices that lists, and which of libibverbs' functions cannot be found.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    static const char *const wanted[] = {
        "ibv_wc_status_str", "ibv_event_type_str", "ibv_node_type_str", "ibv_port_state_str", "ibv_rate_to_mbps",
        "ibv_rate_to_mult", "mbps_to_ibv_rate", "mult_to_ibv_rate", "ibv_get_sysfs_path", "ibv_read_sysfs_file",
        "ibv_copy_qp_attr_from_kern", "ibv_open_device", "ibv_create_qp", "ibv_reg_mr_iova2", "ibv_query_ece",
    };
    void *self = dlsym(RTLD_DEFAULT, "ibv_get_device_list");

    for (int i = 1; i < argc; i++) {
        void *library = dlopen(argv[i], RTLD_NOW), **(*list)(int *);
        int n = -1, alike;

        if (!library) {
            printf("%s: %s\n", argv[i], dlerror());
            continue;
        }
        list = (void **(*)(int *))dlvsym(library, "ibv_get_device_list", "IBVERBS_1.1");
        alike = (void *)list == dlsym(library, "ibv_get_device_list") && (void *)list == self;
        if (list)
            list(&n);
        printf("%s: %s, %d devices", argv[i], alike ? "one instance" : "another instance", n);
        for (unsigned k = 0; list && k < sizeof wanted / sizeof *wanted; k++)
            if (!dlsym(library, wanted[k]))
                printf(", no %s", wanted[k]);
        printf("\n");
    }
    return 0;
}
