// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc

import "google.golang.org/grpc"

// RegisterOCM adds only OCM's service of a server to a gRPC server.
func RegisterOCM(s *Server, r grpc.ServiceRegistrar) { newService(s).registerOCM(r) }
