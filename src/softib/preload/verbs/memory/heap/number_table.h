/* Numbers of queue pairs and SRQs, unique in the fabric, and the objects they refer to. */
#ifndef SOFTIB_VERBS_MEMORY_NUMBER_TABLE_H
#define SOFTIB_VERBS_MEMORY_NUMBER_TABLE_H

#include "shared_heap.h"

static inline uint64_t *vm_number(const struct vm_heap *w, uint32_t number)
{
    return (uint64_t *)(w->base + SOFTIB_VERBS_NUMBERS) + (number & (SOFTIB_VERBS_NUMBERS_N - 1));
}

/* The table of numbers holds process << 48 | offset, so that the hazard of the process can be
 * raised before the object is read. */
#define VM_NUMBER_PROCESS 48

/* Allocate a number (QPN, SRQN) for `object` of this process; 0: none left. Never 0, 1 or the
 * multicast QPN. */
uint32_t vm_number_take(struct vm_heap *w, uint64_t object);
/*
 * Return the object of `number`; NULL if none, or if its process is dead. The objects of that
 * process are held until vm_hazard_end(*hazard).
 */
void *vm_number_hold(struct vm_heap *w, uint32_t number, uint64_t **hazard);
/* Like vm_number_hold, for a caller that already holds a hazard. */
void *vm_number_hold_too(struct vm_heap *w, uint32_t number, uint64_t **hazard);
void vm_number_give(struct vm_heap *w, uint32_t number);
/* Return the process of a table entry. */
static inline uint32_t vm_number_process(uint64_t entry)
{
    return (uint32_t)(entry >> VM_NUMBER_PROCESS);
}

#endif
