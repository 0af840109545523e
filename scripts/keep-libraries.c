// Preloaded under the address sanitizer: no library is unloaded. A leak in a driver is told by the
// name of its library, which is gone when that was unloaded, and then cannot be suppressed.
int dlclose(void *handle) {
	(void)handle;
	return 0;
}
