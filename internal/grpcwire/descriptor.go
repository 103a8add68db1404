// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpcwire

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// BrokerFile is the path of the file that describes the Broker service.
const BrokerFile = "spokewire/cloudevents/v1/broker.proto"

const brokerPackage = "spokewire.cloudevents.v1"

// Descriptors describes the Broker service for reflection. It is not in the registry of the process.
func Descriptors() (*protoregistry.Files, error) {
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String(BrokerFile), Package: proto.String(brokerPackage), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			describe("ClientFrame", "Subscribe subscribe", "Message messages*", "uint64 acknowledged"),
			describe("ServerFrame", "Granted granted", "Message messages*", "uint64 acknowledged", "Refusal refused*"),
			describe("Message", "string topic", "bytes event"),
			describe("Subscribe", "string filters*", "string optional*", "uint64 window"),
			describe("Granted", "uint64 max_message_size", "Denial denied*"),
			describe("Denial", "string filter", "uint32 code", "string reason"),
			describe("Refusal", "uint64 number", "uint32 code", "string reason"),
		},
		Service: []*descriptorpb.ServiceDescriptorProto{{
			Name: proto.String("Broker"),
			Method: []*descriptorpb.MethodDescriptorProto{{
				Name:            proto.String("Connect"),
				InputType:       proto.String("." + brokerPackage + ".ClientFrame"),
				OutputType:      proto.String("." + brokerPackage + ".ServerFrame"),
				ClientStreaming: proto.Bool(true), ServerStreaming: proto.Bool(true),
			}},
		}},
	}
	described, err := protodesc.NewFile(file, nil)
	if err != nil {
		return nil, err
	}
	files := new(protoregistry.Files)
	err = files.RegisterFile(described)
	return files, err
}

var scalars = map[string]protoreflect.Kind{
	"string": protoreflect.StringKind, "bytes": protoreflect.BytesKind,
	"uint32": protoreflect.Uint32Kind, "uint64": protoreflect.Uint64Kind,
}

// describe returns a message with the fields "type name", numbered from 1; a repeated one ends in *.
func describe(name string, fields ...string) *descriptorpb.DescriptorProto {
	m := &descriptorpb.DescriptorProto{Name: proto.String(name)}
	for i, text := range fields {
		kind, name, _ := strings.Cut(text, " ")
		name, repeated := strings.CutSuffix(name, "*")
		field := &descriptorpb.FieldDescriptorProto{
			Name: proto.String(name), Number: proto.Int32(int32(i + 1)), //nolint:gosec // a small number
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}
		if repeated {
			field.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		}
		if scalar, ok := scalars[kind]; ok {
			field.Type = descriptorpb.FieldDescriptorProto_Type(scalar).Enum()
		} else {
			field.Type = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum()
			field.TypeName = proto.String("." + brokerPackage + "." + kind)
		}
		m.Field = append(m.Field, field)
	}
	return m
}
