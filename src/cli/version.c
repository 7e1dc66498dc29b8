extern int ps_cli_placeholder;
int ps_cli_placeholder;
