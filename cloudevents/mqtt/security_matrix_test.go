// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt_test

import (
	"crypto/tls"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// These secrets must not be in any journal.
const (
	rightPassword = "pa55-of-the-user"
	wrongPassword = "an0ther-pass"
)

// site contains the files and secrets of the brokers and clients of the matrix. File names are
// absolute.
type site struct {
	folder                        string
	ca, other                     *certtest.Authority
	caFile, otherFile             string
	clientCert, clientKey         string
	strangerCert, strangerKey     string // of the other CA
	expiredCert, expiredKey       string
	passwordFile, wrongFile, none string
	secrets                       []string
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{folder: t.TempDir(), ca: certtest.New(t), other: certtest.New(t)}
	s.caFile, s.otherFile = s.ca.Write(t, s.folder, "ca"), s.other.Write(t, s.folder, "other")
	client, stranger := s.ca.Issue(t, "client"), s.other.Issue(t, "stranger")
	expired := s.ca.IssueUntil(t, "expired", time.Now().Add(-time.Minute))
	s.clientCert, s.clientKey = client.Write(t, s.folder, "client")
	s.strangerCert, s.strangerKey = stranger.Write(t, s.folder, "stranger")
	s.expiredCert, s.expiredKey = expired.Write(t, s.folder, "expired")
	s.passwordFile, s.wrongFile, s.none = filepath.Join(s.folder, "password"), filepath.Join(s.folder, "wrong"),
		filepath.Join(s.folder, "none")
	writeFile(t, s.passwordFile, rightPassword+"\n")
	writeFile(t, s.wrongFile, wrongPassword+"\n")
	s.secrets = []string{rightPassword, wrongPassword}
	for _, id := range []*certtest.Identity{client, stranger, expired} {
		// One line of the key is enough to detect it.
		s.secrets = append(s.secrets, strings.Split(id.KeyPEM, "\n")[1])
	}
	return s
}

// broker runs Mosquitto with TLS on an MQTT and a WebSocket listener.
func (s *site) broker(t *testing.T, id *certtest.Identity, o mosquitto.Options) *mosquitto.Broker {
	t.Helper()
	o.CertFile, o.KeyFile = id.Write(t, t.TempDir(), "broker")
	o.WebSockets = true
	return mosquitto.Start(t, o)
}

// passwordsOf creates a password file with Mosquitto's own program.
func passwordsOf(t *testing.T, file, user, password string) {
	t.Helper()
	program := daemon.Require(t, "mosquitto_passwd", "mosquitto")
	if output, err := exec.Command(program, "-c", "-b", file, user, password).CombinedOutput(); err != nil {
		t.Fatalf("mosquitto_passwd: %v: %s", err, output)
	}
}

// brokers starts the brokers that the matrix connects to.
func (s *site) brokers(t *testing.T) map[string]*mosquitto.Broker {
	passwords := filepath.Join(s.folder, "passwords")
	passwordsOf(t, passwords, "user", rightPassword)
	withPassword := []string{"allow_anonymous false", "password_file " + passwords}
	id := s.ca.Issue(t, "broker")
	return map[string]*mosquitto.Broker{
		"open":     s.broker(t, id, mosquitto.Options{}),
		"mutual":   s.broker(t, id, mosquitto.Options{ClientCAFile: s.caFile}),
		"password": s.broker(t, id, mosquitto.Options{Lines: withPassword}),
		"both":     s.broker(t, id, mosquitto.Options{ClientCAFile: s.caFile, Lines: withPassword}),
		"expired":  s.broker(t, s.ca.IssueUntil(t, "broker", time.Now().Add(-time.Minute)), mosquitto.Options{}),
	}
}

// way is a row of the matrix.
type way struct {
	name, broker string
	host         string // instead of the broker's address
	options      mqtt.Options
	want         []string // parts of the error; empty if it connects
	// quick is whether the client retries soon. Otherwise the error is a PermanentError, and the
	// client retries at the slowest pace.
	quick bool
}

func (s *site) ways() []way {
	client, _ := tls.LoadX509KeyPair(s.clientCert, s.clientKey)
	ca := s.caFile
	const refused, unknown = "check CertFile and KeyFile", "certificate was not accepted: check CAFile"
	return []way{
		{name: "CA only", broker: "open", options: mqtt.Options{CAFile: ca}},
		{name: "CA in TLS", broker: "open", options: mqtt.Options{TLS: &tls.Config{RootCAs: s.ca.Pool()}}},
		{name: "unrequested certificate", broker: "open", options: mqtt.Options{CAFile: ca, CertFile: s.clientCert,
			KeyFile: s.clientKey}},
		{name: "mutual", broker: "mutual", options: mqtt.Options{CAFile: ca, CertFile: s.clientCert, KeyFile: s.clientKey}},
		{name: "mutual in TLS", broker: "mutual",
			options: mqtt.Options{TLS: &tls.Config{RootCAs: s.ca.Pool(), Certificates: []tls.Certificate{client}}}},
		{name: "mutual with TLS 1.2", broker: "mutual", options: mqtt.Options{CAFile: ca, CertFile: s.clientCert,
			KeyFile: s.clientKey, TLS: &tls.Config{MaxVersion: tls.VersionTLS12}}},
		{name: "password", broker: "password", options: mqtt.Options{CAFile: ca, Username: "user", Password: rightPassword}},
		{name: "password file", broker: "password",
			options: mqtt.Options{CAFile: ca, Username: "user", PasswordFile: s.passwordFile}},
		{name: "mutual and password", broker: "both", options: mqtt.Options{CAFile: ca, CertFile: s.clientCert,
			KeyFile: s.clientKey, Username: "user", Password: rightPassword}},
		{name: "the name in TLS", broker: "open", host: "localhost",
			options: mqtt.Options{CAFile: ca, TLS: &tls.Config{ServerName: "127.0.0.1"}}},

		{name: "wrong CA", broker: "open", options: mqtt.Options{CAFile: s.otherFile}, want: []string{unknown}},
		{name: "no CA", broker: "open", want: []string{unknown}},
		{name: "wrong host", broker: "open", host: "localhost", options: mqtt.Options{CAFile: ca},
			want: []string{"certificate was not accepted: check the host in BrokerURL"}},
		{name: "expired certificate of the broker", broker: "expired", options: mqtt.Options{CAFile: ca},
			want: []string{"certificate was not accepted: renew it at the broker"}},
		{name: "no certificate", broker: "mutual", options: mqtt.Options{CAFile: ca}, want: []string{refused}},
		{name: "no certificate with TLS 1.2", broker: "mutual",
			options: mqtt.Options{CAFile: ca, TLS: &tls.Config{MaxVersion: tls.VersionTLS12}}, want: []string{refused}},
		{name: "certificate of another CA", broker: "mutual", options: mqtt.Options{CAFile: ca, CertFile: s.strangerCert,
			KeyFile: s.strangerKey}, want: []string{refused}},
		{name: "expired certificate", broker: "mutual", options: mqtt.Options{CAFile: ca, CertFile: s.expiredCert,
			KeyFile: s.expiredKey}, want: []string{"expired", refused}},
		{name: "password but no certificate", broker: "both",
			options: mqtt.Options{CAFile: ca, Username: "user", Password: rightPassword}, want: []string{refused}},
		{name: "certificate but no password", broker: "both", options: mqtt.Options{CAFile: ca, CertFile: s.clientCert,
			KeyFile: s.clientKey},
			want: []string{"not authorized (CONNACK 0x87)", "check Username, the password and the certificate"}},
		{name: "wrong password", broker: "password", options: mqtt.Options{CAFile: ca, Username: "user",
			Password: wrongPassword}, want: []string{"not authorized (CONNACK 0x87)", "check Username, the password"}},
		{name: "wrong password file", broker: "password", options: mqtt.Options{CAFile: ca, Username: "user",
			PasswordFile: s.wrongFile}, want: []string{"not authorized (CONNACK 0x87)"}},

		{name: "missing password file", broker: "password", options: mqtt.Options{CAFile: ca, Username: "user",
			PasswordFile: s.none}, want: []string{"PasswordFile: open " + s.none}},
		{name: "missing certificate", broker: "mutual",
			options: mqtt.Options{CAFile: ca, CertFile: s.none, KeyFile: s.clientKey}, want: []string{"CertFile " + s.none}},
		{name: "missing CA", broker: "open", options: mqtt.Options{CAFile: s.none}, want: []string{"CAFile: open " + s.none}},
		{name: "key of another certificate", broker: "mutual", options: mqtt.Options{CAFile: ca, CertFile: s.clientCert,
			KeyFile: s.strangerKey},
			want: []string{"KeyFile " + s.strangerKey, "private key does not match public key"}, quick: true},
	}
}

// TestSecurityMatrix checks each way to secure a link with Mosquitto, over TCP and over WebSockets,
// below an engine. Either an event arrives, or an error describes the solution and the client
// retries. No output contains a secret.
func TestSecurityMatrix(t *testing.T) {
	s := newSite(t)
	brokers := s.brokers(t)
	for _, row := range s.ways() {
		for _, scheme := range []string{"mqtts", "wss"} {
			t.Run(scheme+" "+row.name, func(t *testing.T) {
				t.Parallel() // Mosquitto polls its WebSockets ten times a second
				j := &journal{}
				j.secret(s.secrets...)
				o := row.options
				o.BrokerURL = brokers[row.broker].URL()
				if scheme == "wss" {
					o.BrokerURL = brokers[row.broker].WebSocketURL() + "/mqtt?token=t0ken-in-the-query"
					j.secret("t0ken-in-the-query")
				}
				if row.host != "" {
					o.BrokerURL = strings.Replace(o.BrokerURL, "127.0.0.1", row.host, 1)
				}
				t.Cleanup(func() { j.verify(t) }) // after the engine has ended
				if len(row.want) == 0 {
					startLoop(t, j, o, clock.RealClock{}).roundTrip()
					return
				}
				l := startLoop(t, j, o, clocktesting.NewFakeClock(time.Now()))
				first := l.attempts.next(t)
				wantError(t, first, append(row.want, "connect to "+strings.SplitN(o.BrokerURL, "/mqtt?", 2)[0])...)
				var permanent *cloudevents.PermanentError
				if errors.As(first, &permanent) == row.quick {
					t.Errorf("%v: a PermanentError is %v, want %v", first, row.quick, !row.quick)
				}
				waitFor(t, "Healthy to report it", func() bool { return errors.Is(l.engine.Healthy(), first) })
				l.retry()
				wantError(t, l.attempts.next(t), row.want...)
			})
		}
	}
}
