// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/cloudevents/join"
	"github.com/spokewire/sdk-go/examples/internal/command"
)

const joinUsage = `Usage: agent join --hub URL --token TOKEN [flags]

Requests a certificate for this cluster from a hub, with a token of hub token create, and writes it
to a folder for agent --join. The private key does not leave this machine. After an error, the
command may be run again with the same token and folder.

  --hub URL          the hub's --join-listen: https://HOST:PORT
  --token TOKEN      the token. Other users of this machine can read it while the command runs
  --token-file FILE  a file with the token, or - for standard input
  --dir DIR          the folder (default agent-certs)
  --cluster NAME     fail if the token is for another cluster
  --help             show this help
`

func joinHub(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	p := command.Program[join.Options]{Name: "agent join", Usage: joinUsage, Parse: parseJoin}
	return p.Run(args, stdout, stderr, func(o join.Options) error {
		cert, err := join.Join(ctx, o)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(stdout, "joined    as %s, until %s: run agent --join %s\n",
			cert.Subject.CommonName, cert.NotAfter.UTC().Format(time.RFC3339), o.Dir)
		return err
	})
}

func parseJoin(args []string) (o join.Options, err error) {
	flags := command.NewFlags("agent join")
	var text, file string
	flags.StringVar(&o.URL, "hub", "", "")
	flags.StringVar(&text, "token", "", "")
	flags.StringVar(&file, "token-file", "", "")
	flags.StringVar(&o.Dir, "dir", "agent-certs", "")
	flags.StringVar(&o.Cluster, "cluster", "", "")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case o.URL == "":
		return o, errors.New("--hub is required: the URL of the hub's --join-listen")
	case (text == "") == (file == ""):
		return o, errors.New("one of --token and --token-file is required")
	case file == "-":
		text, err = readAll("--token-file", os.Stdin)
	case file != "":
		text, err = readFile("--token-file", file)
	}
	if err == nil {
		err = flags.NotEmpty("dir", "cluster")
	}
	if err != nil {
		return o, err
	}
	if o.Token, err = join.ParseToken(text); err != nil {
		return o, fmt.Errorf("--token: %w", err)
	}
	return o, nil
}

func readFile(flag, file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	defer func() { _ = f.Close() }()
	return readAll(flag, f)
}

func readAll(flag string, r io.Reader) (string, error) {
	content, err := io.ReadAll(io.LimitReader(r, 1024))
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	return string(content), nil
}

// useJoin sets the files and the cluster of --join.
func (o *options) useJoin(flags command.Flags) error {
	switch {
	case o.Join == "" && o.JoinHub+o.JoinToken != "":
		return errors.New("--join-hub and --join-token-file need --join: the folder for the certificate")
	case o.Join == "":
		return nil
	case o.JoinHub == "" && o.JoinToken != "":
		return errors.New("--join-token-file needs --join-hub: the URL of the hub's --join-listen")
	}
	for _, name := range []string{"hub-ca", "hub-cert", "hub-key", "hub-insecure", "broker-ca", "broker-cert",
		"broker-key"} {
		if flags.Given(name) {
			return fmt.Errorf("--%s and --join are both set: remove one of them", name)
		}
	}
	cluster, err := join.ClusterIn(o.Join)
	switch {
	case o.JoinHub != "" && o.Cluster == "":
		return errors.New("--cluster is required with --join-hub: the cluster of the token")
	case o.JoinHub != "" && o.JoinToken == "":
		return errors.New("--join-token-file is required with --join-hub: a file with the token")
	case o.unjoined():
		cluster = o.Cluster
	case err != nil:
		return fmt.Errorf("--join %s: %w", o.Join, err)
	}
	if o.Cluster == "" {
		o.Cluster = cluster
	}
	if o.Cluster != cluster {
		return fmt.Errorf("--cluster %s: the certificate in --join %s is for cluster %s", o.Cluster, o.Join, cluster)
	}
	files := join.FilesIn(o.Join)
	if flags.Given("hub") {
		o.Hub.CAFile, o.Hub.CertFile, o.Hub.KeyFile = files.CA, files.Cert, files.Key
	} else {
		o.Broker.CAFile, o.Broker.CertFile, o.Broker.KeyFile = files.CA, files.Cert, files.Key
	}
	return nil
}

// unjoined reports whether the agent has to join before it can connect.
func (o *options) unjoined() bool {
	_, err := join.ClusterIn(o.Join)
	return o.JoinHub != "" && errors.Is(err, fs.ErrNotExist)
}

// joinFirst joins the hub in --join-hub if the folder in --join has no certificate.
func (o *options) joinFirst(ctx context.Context) error {
	if !o.unjoined() {
		return nil
	}
	text, err := readFile("--join-token-file", o.JoinToken)
	if err != nil {
		return err
	}
	token, err := join.ParseToken(text)
	if err != nil {
		return fmt.Errorf("--join-token-file %s: %w", o.JoinToken, err)
	}
	cert, err := join.Join(ctx, join.Options{URL: o.JoinHub, Token: token, Dir: o.Join, Cluster: o.Cluster})
	if err != nil {
		return fmt.Errorf("join %s: %w", o.JoinHub, err)
	}
	klog.FromContext(ctx).Info("Joined the hub", "cluster", o.Cluster, "until", cert.NotAfter.UTC())
	return nil
}

// renewer returns the part that renews the certificate of --join.
func (o *options) renewer() ([]part, error) {
	if o.Join == "" {
		return nil, nil
	}
	renewer, err := join.NewRenewer(join.RenewerOptions{Dir: o.Join})
	if err != nil {
		return nil, fmt.Errorf("--join: %w", err)
	}
	return []part{func(ctx context.Context) error { return renewer.Start(ctx) }}, nil
}
