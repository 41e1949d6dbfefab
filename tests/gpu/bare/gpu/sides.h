/* sides.h - none: cores do all tasks of the module that is compiled with this. */
