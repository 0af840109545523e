// Preloaded where no library may be unloaded: under the address sanitizer, where a driver's leaks are suppressed by
// the name of its library, which is lost when the library is unloaded, for a driver that leaks when it is, and in quick
// tests, where loading drivers again and again takes most of the time of Vulkan's tests.
int dlclose(void *handle) {
	(void)handle;
	return 0;
}
