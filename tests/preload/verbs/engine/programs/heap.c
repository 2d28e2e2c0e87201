/*
 * The heap and the keys of a process that lives on: what is freed goes back. "heap FOLDER SEED STEPS" plays against a model: every
 * object is zero when it is given, nobody else writes there, and of what was freed nothing stays but a slab of each size.
 */
#include "key_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MUST(what)                                                                                                           \
    do {                                                                                                                     \
        if (!(what)) {                                                                                                       \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #what);                                             \
            abort();                                                                                                         \
        }                                                                                                                    \
    } while (0)
#define OBJECTS 3000
#define KEYS 100000

static const size_t sizes[] = { 64, 192, 280, 320, 1024, 4096, 33000, 65472, 65536, 200000 };
#define SIZES (sizeof sizes / sizeof *sizes)

static struct vm_heap w;
static struct object {
    uint64_t at;
    size_t octets;
    unsigned char mark;
} objects[OBJECTS];
static struct softib_key *entries[KEYS];

static uint64_t resident(void)
{
    struct stat info;

    MUST(!fstat(w.fd, &info));
    return (uint64_t)info.st_blocks * 512;
}

static uint32_t chunks(void)
{
    const uint32_t *owners = vm_at(&w, SOFTIB_VERBS_OWNERS);
    uint32_t n = 0;

    for (uint64_t i = 0; i < vm_head(&w)->chunk_high; i++)
        n += owners[i] != 0;
    return n;
}

static void make(struct object *o)
{
    const unsigned char *octets;

    o->octets = sizes[(size_t)rand() % SIZES];
    o->at = vm_alloc(&w, o->octets);
    MUST(o->at && o->at % 64 == 0);
    octets = vm_at(&w, o->at);
    for (size_t i = 0; i < o->octets; i++)
        MUST(!octets[i]);
    o->mark = (unsigned char)(rand() | 1);
    memset(vm_at(&w, o->at), o->mark, o->octets);
}

static void drop(struct object *o)
{
    const unsigned char *octets = vm_at(&w, o->at);

    for (size_t i = 0; i < o->octets; i++)
        MUST(octets[i] == o->mark);
    vm_free(&w, o->at, o->octets);
    o->at = 0;
}

static void play(int steps)
{
    uint64_t before = resident(), most = 0;

    for (int step = 0; step < steps; step++) {
        struct object *o = &objects[rand() % (step / 1000 % 2 ? OBJECTS : OBJECTS / 8)];

        if (o->at)
            drop(o);
        else
            make(o);
        most = resident() > most ? resident() : most;
    }
    for (int i = 0; i < OBJECTS; i++)
        if (objects[i].at)
            drop(&objects[i]);
    MUST(chunks() <= SIZES); /* one slab of each */
    MUST(most > 20 << 20 && resident() < before + SIZES * SOFTIB_VERBS_CHUNK + 8192);
}

/* A long queue takes what is in it; a short one is whole at once. Its pages are zeros, and go back with it. */
static void queues(void)
{
    uint64_t before = resident(), at;
    uint32_t there, all = 4 << 20;

    at = vm_alloc_ring(&w, all, &there);
    MUST(at && there >= 4096 && there <= 65536 && resident() <= before + 65536 + 8192);
    for (uint32_t end = 64; end <= all; end += 64) {
        MUST(vm_ring_reaches(&w, at, all, &there, end) && there >= end && there <= all);
        MUST(resident() <= before + end + 65536 + 8192);
        MUST(!*((char *)vm_at(&w, at) + end - 64));
        memset(vm_at(&w, at + end - 64), 1, 64);
    }
    MUST(there == all);
    vm_free(&w, at, all);
    MUST(resident() <= before + 8192);
    at = vm_alloc_ring(&w, 32768, &there);
    MUST(at && there == 32768);
    vm_free(&w, at, 32768);
}

/* A child frees nothing of its parent's, and takes nothing of it. */
static void inherit(void)
{
    uint64_t mine = vm_alloc(&w, 192), other;

    vm_renumber(&w, 4);
    vm_free(&w, mine, 192);
    other = vm_alloc(&w, 192);
    MUST(other / SOFTIB_VERBS_CHUNK != mine / SOFTIB_VERBS_CHUNK);
    vm_free(&w, other, 192);
}

static void keys(void)
{
    uint64_t before = resident();
    uint32_t key, first = 0;

    for (int i = 0; i < KEYS; i++) {
        entries[i] = vm_key_take(&w, &key);
        MUST(entries[i] && !entries[i]->key);
        first = first ? first : key;
        vm_key_publish(entries[i], key);
    }
    MUST(resident() > before + KEYS * sizeof(struct softib_key));
    for (int i = 0; i < KEYS; i++) {
        vm_key_give(entries[i]);
        vm_key_left(&w, entries[i]);
    }
    MUST(resident() < before + (1 << 19)); /* 16 blocks, those of the last half, and the table of their owners */
    for (int i = 0; i < KEYS; i++) { /* who took a block for the second time begins with other keys */
        entries[i] = vm_key_take(&w, &key);
        MUST(entries[i] && key != first);
        vm_key_publish(entries[i], key);
    }
}

int main(int argc, char **argv)
{
    MUST(argc == 4 && !vm_open(&w, argv[1], -1, 3));
    srand((unsigned)atoi(argv[2]));
    play(atoi(argv[3]));
    keys();
    queues();
    inherit();
    vm_close(&w);
    puts("ok");
    return 0;
}
