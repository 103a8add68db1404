// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/cloudevents/grpc"
)

func TestOptionsAreChecked(t *testing.T) {
	valid := grpc.Options{Address: "hub.example.com:8443"}
	for name, row := range map[string]struct {
		change func(o *grpc.Options)
		want   string
	}{
		"no address":       {func(o *grpc.Options) { o.Address = "" }, "Address"},
		"no port":          {func(o *grpc.Options) { o.Address = "hub.example.com" }, "host:port"},
		"URL":              {func(o *grpc.Options) { o.Address = "https://hub.example.com:1" }, "host:port"},
		"port 0":           {func(o *grpc.Options) { o.Address = "hub:0" }, "host:port"},
		"insecure with CA": {func(o *grpc.Options) { o.Insecure, o.CAFile = true, "ca" }, "Insecure"},
		"half a pair":      {func(o *grpc.Options) { o.CertFile = "crt" }, "KeyFile"},
		"two tokens":       {func(o *grpc.Options) { o.Token, o.TokenFile = secret, "file" }, "TokenFile"},
		"bad token":        {func(o *grpc.Options) { o.Token = secret + "\n" }, "Token has a character"},
		"old TLS":          {func(o *grpc.Options) { o.TLS = &tls.Config{MaxVersion: tls.VersionTLS11} }, "TLS 1.2"},
		"short keep alive": {func(o *grpc.Options) { o.KeepAlive = time.Second }, "KeepAlive"},
		"negative timeout": {func(o *grpc.Options) { o.ConnectTimeout = -1 }, "ConnectTimeout"},
	} {
		o := valid
		row.change(&o)
		_, err := grpc.New(o)
		if err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: New returned %v, want an error with %q and without the token", name, err, row.want)
		}
	}
	if _, err := grpc.New(valid); err != nil {
		t.Error(err)
	}
}

func TestServerOptionsAreChecked(t *testing.T) {
	for name, row := range map[string]struct {
		o    grpc.ServerOptions
		want string
	}{
		"half a pair":      {grpc.ServerOptions{CertFile: "crt"}, "KeyFile"},
		"CA without pair":  {grpc.ServerOptions{ClientCAFile: "ca"}, "ClientCAFile"},
		"TLS twice":        {grpc.ServerOptions{CertFile: "crt", KeyFile: "key", TLS: &tls.Config{}}, "TLS"},
		"insecure and TLS": {grpc.ServerOptions{Insecure: true, TLS: &tls.Config{}}, "Insecure"},
		"old TLS":          {grpc.ServerOptions{TLS: &tls.Config{MaxVersion: tls.VersionTLS11}}, "TLS 1.2"},
		"large messages":   {grpc.ServerOptions{MaxMessageSize: 1 << 30}, "MaxMessageSize"},
		"negative queue":   {grpc.ServerOptions{MaxQueueBytes: -1}, "MaxQueueBytes"},
		"negative places":  {grpc.ServerOptions{MaxConnections: -1}, "MaxConnections"},
		"negative total":   {grpc.ServerOptions{MaxTotalQueueBytes: -1}, "MaxTotalQueueBytes"},
	} {
		if _, err := grpc.NewServer(row.o); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: NewServer returned %v, want an error with %q", name, err, row.want)
		}
	}
}

func TestTokenIsNotPrinted(t *testing.T) {
	o := grpc.Options{Address: "hub.example.com:8443", Token: secret, TLS: &tls.Config{}}
	transport := newTransport(t, o)
	encoded, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		fmt.Sprintf("%v %+v %#v %s %q", o, o, o, o, o), fmt.Sprintf("%+v", &o), string(encoded), o.LogValue().String(),
		fmt.Sprint(o.MarshalLog()), fmt.Sprintf("%v %+v %#v", transport, transport, transport),
	} {
		if strings.Contains(text, secret) || !strings.Contains(text, "hub.example.com") {
			t.Errorf("printed %s, want the address and no token", text)
		}
	}
}
