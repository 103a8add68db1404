// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package dynsec lets agents of package cloudevents/join use a Mosquitto broker, and ends the
// connections of revoked agents at once, without a restart or a signal. It uses the dynamic security
// plugin, which is part of Mosquitto 2 and of Debian's package.
//
//	broker, err := dynsec.New(dynsec.Options{
//		Broker: mqtt.Options{
//			BrokerURL: "mqtts://broker.example.com", CAFile: "ca.crt", CertFile: "client.crt", KeyFile: "client.key",
//		},
//		SourceID: "hub",
//	})
//	server, err := join.NewServer(join.ServerOptions{Apply: broker.Apply, ...})
//
// # Broker
//
// The broker needs these lines, in place of an acl_file:
//
//	require_certificate true
//	use_subject_as_username true
//	plugin /usr/lib/x86_64-linux-gnu/mosquitto_dynamic_security.so
//	plugin_opt_config_file /var/lib/mosquitto/dynamic-security.json
//
// [Config] returns the first content of the file, with the rights of the source. The broker writes
// the file, so it must be the owner.
//
// # Revocation
//
// A user of the broker is the whole subject of a certificate, for example CN=cluster1,OU=join-1. A
// join adds the user with the topics of its cluster. A revocation deletes the user: Mosquitto then
// disconnects its clients. It accepts later connections with the certificate, because it does not
// look up the users of certificates, but denies each subscription and publication. The join after a
// revocation has another subject, so the revoked certificate remains without rights.
//
// Mosquitto checks the end of a certificate only when a client connects. A list of revoked
// certificates (crlfile) does not end connections: Mosquitto reads it at SIGHUP, for new connections.
package dynsec
