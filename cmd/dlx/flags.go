package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dlx-go/dlx/core"
)

// choice is a flag whose argument is one of a few words.
type choice[T ~string] struct {
	value *T // the default, until Set changes it
	words []T
}

// list returns the words, for messages and completion.
func (c choice[T]) list() []string {
	list := make([]string, len(c.words))
	for i, w := range c.words {
		list[i] = string(w)
	}
	return list
}

// String returns the chosen word.
func (c choice[T]) String() string {
	if c.value == nil { // the flag package calls String of a zero value to find out which defaults to hide
		return ""
	}
	return string(*c.value)
}

// Set chooses a word.
func (c choice[T]) Set(s string) error {
	if !slices.Contains(c.words, T(s)) {
		return fmt.Errorf("must be %s", strings.Join(c.list(), ", "))
	}
	*c.value = T(s)
	return nil
}

// Type returns the name of the argument in the help text.
func (c choice[T]) Type() string { return strings.Join(c.list(), "|") }

// complete completes the argument.
func (c choice[T]) complete(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return c.list(), cobra.ShellCompDirectiveNoFileComp
}

// devices is a flag whose argument is a list of devices, such as "cpu,cuda:1".
type devices []core.DeviceID

// String returns the list.
func (d *devices) String() string {
	names := make([]string, len(*d))
	for i, id := range *d {
		names[i] = id.String()
	}
	return strings.Join(names, ",")
}

// Set adds devices to the list, so that the flag may be repeated.
func (d *devices) Set(s string) error {
	for name := range strings.SplitSeq(s, ",") {
		id, err := core.ParseDevice(name)
		if err != nil {
			return err
		}
		*d = append(*d, id)
	}
	return nil
}

// one returns an error if the flag with this name has more than one device.
func (d *devices) one(flag string) error {
	if len(*d) > 1 {
		return fmt.Errorf("invalid argument %q for --%s: must be one device", d.String(), flag)
	}
	return nil
}

// Type returns the name of the argument in the help text.
func (d *devices) Type() string { return "device,..." }
