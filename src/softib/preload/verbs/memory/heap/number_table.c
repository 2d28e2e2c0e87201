/* Numbers of queue pairs and SRQs: allocation, lookup and release. */
#include "number_table.h"
#include "../hazards.h"

/* Numbers are allocated cyclically, so that none is reused soon. The cycle covers only a part of the table, because
 * each part in use takes memory. */
#define ROUND 0x100000

uint32_t vm_number_take(struct vm_heap *w, uint64_t object)
{
    uint64_t value = (uint64_t)w->process << VM_NUMBER_PROCESS | object;
    uint32_t start = __atomic_fetch_add(&vm_head(w)->number_next, 1, __ATOMIC_RELAXED) % ROUND;

    for (uint32_t tries = 0; tries < ROUND + SOFTIB_VERBS_NUMBERS_N; tries++) {
        uint32_t number = tries < ROUND ? (start + tries) % ROUND : tries - ROUND;
        uint64_t none = 0;

        if (number < 2 || number == SOFTIB_VERBS_NUMBERS_N - 1) /* reserved for QP0, QP1 and multicast */
            continue;
        if (!vm_reserve_entries(w, SOFTIB_VERBS_NUMBERS, sizeof none, __atomic_load_n(&vm_head(w)->number_high, __ATOMIC_RELAXED),
                                number, 1))
            return 0;
        vm_raise(&vm_head(w)->number_high, number + 1); /* first: the daemon must find it if this process is killed */
        if (__atomic_compare_exchange_n(vm_number(w, number), &none, value, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
            return number;
    }
    return 0;
}

static void *hold(struct vm_heap *w, uint32_t number, uint64_t **hazard, enum vm_level level)
{
    uint64_t *at = vm_number(w, number), value;
    uint32_t process;

    if (number >= __atomic_load_n(&vm_head(w)->number_high, __ATOMIC_RELAXED))
        return NULL; /* unowned; reading it would allocate pages, since the file is sparse */
    value = __atomic_load_n(at, __ATOMIC_ACQUIRE);
    process = vm_number_process(value);
    if (!value || !__atomic_load_n(&vm_process(w, process)->alive, __ATOMIC_RELAXED))
        return NULL;
    *hazard = vm_hazard(w, process, level);
    if (__atomic_load_n(at, __ATOMIC_SEQ_CST) != value) {
        vm_hazard_end(*hazard);
        return NULL;
    }
    return vm_at(w, value & ((1ull << VM_NUMBER_PROCESS) - 1));
}

void *vm_number_hold(struct vm_heap *w, uint32_t number, uint64_t **hazard)
{
    return hold(w, number, hazard, VM_FIRST);
}

void *vm_number_hold_too(struct vm_heap *w, uint32_t number, uint64_t **hazard)
{
    return hold(w, number, hazard, VM_SECOND);
}

void vm_number_give(struct vm_heap *w, uint32_t number)
{
    __atomic_store_n(vm_number(w, number), 0, __ATOMIC_SEQ_CST);
}
