/* Static rates: the codes of PathRecord.Rate (IBA 15.2.5.16), as multiples of 2.5 Gb/s and in Mb/s on the wire. */
#include "deviceless.h"

static const struct {
    int code, mult, mbps; /* mult 0: no multiple is defined */
} rates[] = {
    { 2, 1, 2500 },      { 5, 2, 5000 },      { 3, 4, 10000 },     { 6, 8, 20000 },     { 4, 12, 30000 },    { 7, 16, 40000 },
    { 8, 24, 60000 },    { 9, 32, 80000 },    { 10, 48, 120000 },  { 11, 0, 14062 },    { 12, 0, 56250 },    { 13, 0, 112500 },
    { 14, 0, 168750 },   { 15, 0, 25781 },    { 16, 0, 103125 },   { 17, 0, 206250 },   { 18, 0, 309375 },   { 19, 11, 28125 },
    { 20, 20, 53125 },   { 21, 160, 425000 }, { 22, 240, 637500 }, { 23, 320, 850000 }, { 24, 480, 1275000 },
};
enum { RATES = sizeof rates / sizeof *rates, UNKNOWN = -1 };

DL_EXPORT int ibv_rate_to_mult(enum ibv_rate rate)
{
    for (int i = 0; i < RATES; i++)
        if (rates[i].code == (int)rate)
            return rates[i].mult ? rates[i].mult : UNKNOWN;
    return UNKNOWN;
}

DL_EXPORT int ibv_rate_to_mbps(enum ibv_rate rate)
{
    for (int i = 0; i < RATES; i++)
        if (rates[i].code == (int)rate)
            return rates[i].mbps;
    return UNKNOWN;
}

DL_EXPORT enum ibv_rate mult_to_ibv_rate(int mult)
{
    for (int i = 0; mult && i < RATES; i++)
        if (rates[i].mult == mult)
            return (enum ibv_rate)rates[i].code;
    return IBV_RATE_MAX;
}

DL_EXPORT enum ibv_rate mbps_to_ibv_rate(int mbps)
{
    for (int i = 0; i < RATES; i++)
        if (rates[i].mbps == mbps)
            return (enum ibv_rate)rates[i].code;
    return IBV_RATE_MAX;
}
