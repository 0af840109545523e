package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/dlx-go/dlx/tensorfile"
)

// completeFlag makes the shell complete the argument of a flag.
func completeFlag(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc(flag, f)) // fails only for a flag that is not there
}

// fileExtensions are those of the formats that are read and written.
var fileExtensions = []cobra.Completion{"npy", "npz", "safetensors"}

// completeFile offers the files that can be read, for the one argument FILE.
func completeFile(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return completeFiles(cmd, args, begun)
}

// completeFiles offers the files that can be read, for each of several arguments.
func completeFiles(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return fileExtensions, cobra.ShellCompDirectiveFilterFileExt
}

// completeDevices offers the devices of this machine for the last entry of a list.
func (a *app) completeDevices(cmd *cobra.Command, _ []string, list string) ([]cobra.Completion, cobra.ShellCompDirective) {
	done := list[:strings.LastIndexByte(list, ',')+1]
	var offers []cobra.Completion
	for _, b := range a.registry.Backends() {
		found, err := b.Devices(cmd.Context())
		if err != nil {
			continue // a driver that is missing offers nothing
		}
		for _, p := range found {
			offers = append(offers, cobra.CompletionWithDesc(done+p.ID.String(), printable(p.Name)))
		}
	}
	return offers, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeTensors offers the names of the tensors in the file that is the first argument.
func completeTensors(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	f, err := tensorfile.Open(args[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	defer f.Close()
	var offers []cobra.Completion
	for _, t := range f.Tensors() {
		offers = append(offers, cobra.CompletionWithDesc(shownName(resultName(t.Name)), t.DType.String()))
	}
	return offers, cobra.ShellCompDirectiveNoFileComp
}
