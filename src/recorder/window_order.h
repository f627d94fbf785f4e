/* An order to a process that `lapwing run` records: to take a window of torch's profiler
 * between two steps of its training. Its agent does it with torch's own profiler, from
 * within, so nothing has to be there before anybody asks.
 *
 *     who attaches     writes SOCKET's folder/order-PID, and sends the recorder the pid
 *     the recorder     adds one to `orders` in the memory that it shares with the process
 *     the agent        looks there between two steps, takes the file, and follows it
 *
 * What becomes of it is seen in the folder that the order names, which whoever attaches
 * made for it and can take away again: without it, the agent ends the window and saves
 * nothing.
 *
 *     busy                   the program runs torch's profiler itself: it waits for that
 *     begun                  the window has begun
 *     failed                 a sentence, which follows "process 4711 "
 *     trace.pt.trace.json    the window, whole
 */
#ifndef LW_RECORDER_WINDOW_ORDER_H
#define LW_RECORDER_WINDOW_ORDER_H

#include "recorder/kineto_daemon_client.h"

enum lw_order_state {
    LW_ORDER_NOT_BEGUN,
    LW_ORDER_BUSY,
    LW_ORDER_BEGUN,
    LW_ORDER_FAILED,
};

/* The socket of the recorder of process PID, which the caller frees, in *SOCKET; NULL there:
 * nobody records it, or its agent takes no orders, and *REASON says why if that is known
 * (it follows "process 4711 "; NULL: nothing is known). Fails only for lack of memory. */
bool lw_order_find(pid_t pid, char **socket, const char **reason, struct lw_error *err)
    LW_MUST_CHECK;

/* Have process PID take WINDOW, with the first step that begins at its `start_ms` or later,
 * and leave it in PLACE. What a device needs for a warm-up the agent knows itself. */
bool lw_order_give(pid_t pid, const char *socket, const struct lw_kineto_window *window,
                   const struct lw_kineto_folder *place, struct lw_error *err)
    LW_MUST_CHECK;

/* How far the process is that was given FOLDER; of one that failed, why in the SIZE bytes at
 * WHY. Whether its trace is there is not looked at. */
enum lw_order_state lw_order_look(const struct lw_kineto_folder *folder, char *why,
                                  size_t size);

/* The order that named PLACE need not be followed any more. */
void lw_order_withdraw(pid_t pid, const char *socket,
                       const struct lw_kineto_folder *place);

#endif
