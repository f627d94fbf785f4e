/* Telling a recorder that does not answer, without waiting for it. */
#ifndef LW_AGENT_MISSED_H
#define LW_AGENT_MISSED_H

/* This process will not be recorded, because the recorder that listens at SOCKET_PATH could
 * not take its hello: add it to the file that the recorder reads at the end
 * (LW_AGENT_MISSED). Only system calls: safe after fork. */
void lw_missed_note(const char *socket_path);

#endif
