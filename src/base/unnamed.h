/* unnamed.h - files that have no name, and so are gone with the process. */
#ifndef DSF_BASE_UNNAMED_H
#define DSF_BASE_UNNAMED_H

/* One in `folder`, for reading and writing; -1 with errno. */
int dsf_unnamed_open(const char *folder);

#endif
