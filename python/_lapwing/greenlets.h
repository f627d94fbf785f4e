/* Greenlets: several stacks in one thread, of which one runs at a time.
 *
 * Python tells nobody when a greenlet hands over to another, and a call that one of them
 * entered would be left by a return of the next. So the functions of the greenlet package
 * through which all switches go (gevent's and eventlet's too) call ours, which note where
 * the tree stands, in a variable on the greenlet's own stack, and go back there when the
 * greenlet runs again. A new greenlet begins at the thread's root, as its frames do.
 *
 * The time that a greenlet waits is nobody's; a call has the time that its greenlet ran. */
#ifndef PY_LAPWING_GREENLETS_H
#define PY_LAPWING_GREENLETS_H

#include "compat.h"

/* Greenlets are followed from now on, whether the package is imported already or later. */
void py_greenlets_watch(void);
/* No more; whatever was replaced is put back. */
void py_greenlets_forget(void);

#endif
