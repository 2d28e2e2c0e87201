/* Numbers of queue pairs and SRQs, unique in the fabric, and the objects that they lead to. */
#ifndef SOFTIB_VERBS_MEMORY_NUMBER_TABLE_H
#define SOFTIB_VERBS_MEMORY_NUMBER_TABLE_H

#include "shared_heap.h"

static inline uint64_t *vm_number(const struct vm_heap *w, uint32_t number)
{
    return (uint64_t *)(w->base + SOFTIB_VERBS_NUMBERS) + (number & (SOFTIB_VERBS_NUMBERS_N - 1));
}

/* The table of numbers holds process << 48 | offset: whose hazard to raise is known before the object is looked at. */
#define VM_NUMBER_PROCESS 48

/* A number (QPN, SRQN) that leads to `object` of this process; 0: none left. Never 0, 1 or the multicast QPN. */
uint32_t vm_number_take(struct vm_heap *w, uint64_t object);
/*
 * The object that `number` leads to, NULL where there is none or its process is dead. Its process's objects are held until
 * vm_hazard_end(*hazard).
 */
void *vm_number_hold(struct vm_heap *w, uint32_t number, uint64_t **hazard);
/* The same for who holds one already. */
void *vm_number_hold_too(struct vm_heap *w, uint32_t number, uint64_t **hazard);
void vm_number_give(struct vm_heap *w, uint32_t number);
/* Whose object an entry of the table leads to. */
static inline uint32_t vm_number_process(uint64_t entry)
{
    return (uint32_t)(entry >> VM_NUMBER_PROCESS);
}

#endif
