// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"os"

	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
)

// StringVar is the method of a set of flags, of package flag or pflag.
type StringVar = func(value *string, name, initial, usage string)

// option is a flag for an option of the SDK.
type option struct {
	field, flag string
	value       *string
	usage       string
}

// add adds flags, and returns their names by the fields of the options.
func add(to StringVar, options []option) map[string]string {
	names := map[string]string{}
	for _, o := range options {
		to(o.value, o.flag, "", o.usage)
		names[o.field] = "--" + o.flag
	}
	return names
}

// BrokerFlags adds the flags of the connection to a broker, except --broker. Errors of the
// connection contain them, and --broker.
func BrokerFlags(to StringVar, o *mqtt.Options) {
	o.OptionNames = add(to, []option{
		{"CAFile", "broker-ca", &o.CAFile, "the CAs of the broker's certificate in `FILE`"},
		{"CertFile", "broker-cert", &o.CertFile, "the certificate for the broker in `FILE`"},
		{"KeyFile", "broker-key", &o.KeyFile, "the key of that certificate in `FILE`"},
		{"Username", "username", &o.Username, "the user at the broker, `NAME`"},
		{"PasswordFile", "password-file", &o.PasswordFile, "the user's password in `FILE`"},
	})
	o.OptionNames["BrokerURL"] = "--broker"
}

// HubFlags adds the flags of the connection to a hub. Errors of the connection contain them.
func HubFlags(flags Flags, o *grpc.Options) {
	o.OptionNames = add(flags.StringVar, []option{
		{"Address", "hub", &o.Address, ""}, {"CAFile", "hub-ca", &o.CAFile, ""}, {"CertFile", "hub-cert", &o.CertFile, ""},
		{"KeyFile", "hub-key", &o.KeyFile, ""}, {"TokenFile", "hub-token-file", &o.TokenFile, ""},
	})
	flags.BoolVar(&o.Insecure, "hub-insecure", false, "")
	o.OptionNames["Insecure"] = "--hub-insecure"
}

// ServerFlags adds the flags of the server of a hub, except its address. Errors of the server
// contain them.
func ServerFlags(flags Flags, o *grpc.ServerOptions) {
	o.OptionNames = add(flags.StringVar, []option{
		{"CertFile", "grpc-cert", &o.CertFile, ""}, {"KeyFile", "grpc-key", &o.KeyFile, ""},
		{"ClientCAFile", "grpc-client-ca", &o.ClientCAFile, ""},
	})
}

// CheckBroker returns an error with the flag if the options or their files are invalid. Files are
// read again for each connection, so they may be replaced later.
func CheckBroker(o mqtt.Options) error {
	transport, err := mqtt.New(o) // this does not connect
	if err != nil {
		return err
	}
	return transport.CheckFiles()
}

// CheckHub is CheckBroker for the connection to a hub.
func CheckHub(o grpc.Options) error {
	transport, err := grpc.New(o) // this does not connect
	if err != nil {
		return err
	}
	return transport.CheckFiles()
}

// CheckServer is CheckBroker for the server of a hub.
func CheckServer(o grpc.ServerOptions) error {
	server, err := grpc.NewServer(o) // this does not listen
	if err != nil {
		return err
	}
	return server.CheckFiles()
}

// CheckFolder returns an error if the folder of a flag or an argument cannot be read. An empty path
// is no error.
func CheckFolder(name, path string) error {
	if path == "" {
		return nil
	}
	if _, err := os.ReadDir(path); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
