/* The script of the flame graph, flame.js, as the build put it into the program. */
#ifndef LW_WRITERS_FLAME_H
#define LW_WRITERS_FLAME_H

extern const char lw_flame_js[]; /* NUL-terminated */

#endif
