// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Protogen writes the Go code of .proto files: it does what protoc does, with the plugins of PATH, and needs nothing that
// Go does not bring.
//
//	protogen [--private VARIABLE] ROOT OUT MODULE FILE …
//
// FILEs are paths below ROOT, as the files import each other. Code goes where the option go_package says, below OUT, which is
// the folder of the Go package MODULE. With --private the code registers itself not with the registries of the process but with
// those in a variable of its package, which has the fields Files and Types: two packages of a program may then have
// messages of the same full names, which otherwise ends it before it begins.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	private := flag.String("private", "", "the `variable` with the registries")
	flag.Parse()
	if flag.NArg() < 4 {
		fmt.Fprintln(os.Stderr, "usage: protogen [--private VARIABLE] ROOT OUT MODULE FILE …")
		os.Exit(2)
	}
	if err := run(context.Background(), *private, flag.Arg(0), flag.Arg(1), flag.Arg(2), flag.Args()[3:]); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, private, root, out, module string, files []string) error {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{root}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	compiled, err := compiler.Compile(ctx, files...)
	if err != nil {
		return err
	}
	parameter := "module=" + module
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: files, Parameter: &parameter}
	seen := map[string]bool{}
	for _, file := range compiled {
		request.ProtoFile = append(request.ProtoFile, withImports(file, seen)...)
	}
	for _, plugin := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		response, err := generate(ctx, plugin, request)
		if err != nil {
			return fmt.Errorf("%s: %w", plugin, err)
		}
		for _, file := range response.File {
			content := file.GetContent()
			if private != "" && strings.HasSuffix(file.GetName(), ".pb.go") && plugin == "protoc-gen-go" {
				if content, err = privately(content, private); err != nil {
					return fmt.Errorf("%s: %w", file.GetName(), err)
				}
			}
			if err := write(filepath.Join(out, file.GetName()), content); err != nil {
				return err
			}
		}
	}
	return nil
}

// withImports returns a file after all that it imports, as plugins want them.
func withImports(file protoreflect.FileDescriptor, seen map[string]bool) []*descriptorpb.FileDescriptorProto {
	if seen[file.Path()] {
		return nil
	}
	seen[file.Path()] = true
	var all []*descriptorpb.FileDescriptorProto
	for i := range file.Imports().Len() {
		all = append(all, withImports(file.Imports().Get(i).FileDescriptor, seen)...)
	}
	return append(all, protoutil.ProtoFromFileDescriptor(file))
}

func generate(
	ctx context.Context, plugin string, request *pluginpb.CodeGeneratorRequest,
) (*pluginpb.CodeGeneratorResponse, error) {
	input, err := proto.Marshal(request)
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, plugin)
	command.Stdin, command.Stderr = bytes.NewReader(input), os.Stderr
	output, err := command.Output()
	if err != nil {
		return nil, err
	}
	response := &pluginpb.CodeGeneratorResponse{}
	if err := proto.Unmarshal(output, response); err != nil {
		return nil, err
	}
	if response.Error != nil {
		return nil, fmt.Errorf("%s", response.GetError())
	}
	return response, nil
}

// privately sets the two fields of the builders that the generator leaves empty. Where they are not found once each, the
// generator has changed.
func privately(content, variable string) (string, error) {
	for _, field := range []struct{ builder, name, value string }{
		{"protoimpl.TypeBuilder{", "TypeRegistry", variable + ".Types"},
		{"protoimpl.DescBuilder{", "FileRegistry", variable + ".Files"},
	} {
		if strings.Count(content, field.builder) != 1 {
			return "", fmt.Errorf("%q is there %d times, not once", field.builder, strings.Count(content, field.builder))
		}
		content = strings.Replace(content, field.builder, field.builder+"\n"+field.name+": "+field.value+",", 1)
	}
	formatted, err := format.Source([]byte(content))
	return string(formatted), err
}

func write(file, content string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(content), 0o644)
}
