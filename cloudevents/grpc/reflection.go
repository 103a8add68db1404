// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/reflection"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/spokewire/sdk-go/internal/grpcwire"
)

// registerReflection lets clients request the services and their messages.
func registerReflection(server *grpc.Server) error {
	own, err := grpcwire.Descriptors()
	if err != nil {
		return err
	}
	options := reflection.ServerOptions{Services: server, DescriptorResolver: registries{own, protoregistry.GlobalFiles}}
	reflectionv1.RegisterServerReflectionServer(server, reflection.NewServerV1(options))
	reflectionv1alpha.RegisterServerReflectionServer(server, reflection.NewServer(options))
	return nil
}

// registries finds files and names in the first registry that has them.
type registries []protodesc.Resolver

// FindFileByPath implements [protodesc.Resolver].
func (r registries) FindFileByPath(path string) (f protoreflect.FileDescriptor, err error) {
	for _, files := range r {
		if f, err = files.FindFileByPath(path); err == nil {
			break
		}
	}
	return f, err
}

// FindDescriptorByName implements [protodesc.Resolver].
func (r registries) FindDescriptorByName(name protoreflect.FullName) (d protoreflect.Descriptor, err error) {
	for _, files := range r {
		if d, err = files.FindDescriptorByName(name); err == nil {
			break
		}
	}
	return d, err
}
