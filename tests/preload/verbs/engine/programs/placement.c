/* "placement": ve_place copies what memcpy does, and nothing beside, for every length and alignment that its blocks, words and octets meet. */
#include "copy.h"
#include "rig.h"

#include <string.h>

#define LONGEST 420
#define OFFSETS 40

int main(void)
{
    static _Alignas(64) char from[LONGEST + 64], to[LONGEST + OFFSETS + 64], want[sizeof to];
    static const unsigned sources[] = { 0, 1, 7, 8, 31, 32 };

    for (unsigned i = 0; i < sizeof from; i++)
        from[i] = (char)(i * 37 + 1);
    for (unsigned s = 0; s < sizeof sources / sizeof *sources; s++) {
        for (unsigned offset = 0; offset < OFFSETS; offset++) {
            for (unsigned n = 0; n <= LONGEST; n++) {
                memset(to, 0x5A, sizeof to);
                memset(want, 0x5A, sizeof want);
                memcpy(want + offset, from + sources[s], n);
                ve_place(to + offset, from + sources[s], n);
                MUST(!memcmp(to, want, sizeof to));
            }
        }
    }
    puts("ok");
    return 0;
}
