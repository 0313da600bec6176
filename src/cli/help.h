/* Help and usage, made from the tables of commands and options. */
#pragma once
#include <stdio.h>

#include "cli/command.h"

/* What "ballast" alone and "ballast help" say. */
void bl_help_overview(FILE *file);
/* A group's commands. */
void bl_help_group(FILE *file, const char *group);
void bl_help_command(FILE *file, const BlCommand *command);
/* "model import", or "help". Caller frees. */
char *bl_command_full_name(const BlCommand *command);
